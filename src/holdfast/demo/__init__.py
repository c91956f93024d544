"""Holdfast in a minute: payments with planted fraud, two rules over them in one job, a kill half way, and what came out.

`play.play` is the whole of it, as `holdfast demo` shows it. The job is a script of its own, as users write them.
"""
