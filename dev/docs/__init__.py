"""The documentation site (`make docs`).

`python -m dev.docs FOLDER`, in the product's environment, generates the pages that come from the code. MkDocs
has an environment of its own and loads `hooks.py`, which assembles the pages with the functions of
`pages.py`.
"""
