"""Pure: from facts about a job to findings. Each says in a sentence what is wrong, by which evidence, what to
do, and whose move it is.

What is known of each reason is the manual's (docs/reasons.md), in `remedies.json`.
"""
