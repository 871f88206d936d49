"""Scripts of jobs. They run in driver pods, from a ConfigMap; none of them imports anything of ours."""
