"""What the resources of the other operators say: Kubeflow's, Apache's, and the Spark settings in both."""
