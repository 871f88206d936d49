"""Pure: from resources, as the API server has them, to what a person wants to know of them.

A field that is missing is not an error: the controller, or the resource, may be of another version.
"""
