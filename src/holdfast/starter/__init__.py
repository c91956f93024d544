"""Projects to begin with: `holdfast new` fills a skeleton with a template, a function with its tests and its job.

`skeleton/` and `templates/` are the texts of what is made, not code of ours: `$package` and its like are filled in. A
template is a folder with the files that `templates.py` names; another package offers its own in a folder of the same form.
Each recipe is a template, too: `beginnings.py` has what differs from one to the other.
"""
