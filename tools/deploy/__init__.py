"""Clusters from a scheduler: an image, Kubernetes with KubeRay, Slurm. See docs/guides/cluster-deploy.md."""
