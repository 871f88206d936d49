"""Terminal and plain text. Views say what and how important; this room says how it looks.

Plain text when standard output is no terminal, or with NO_COLOR. rich is imported for terminals only.
"""
