"""The JSON that the dashboard serves: typed responses, each with a bound on its size."""
