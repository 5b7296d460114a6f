"""What people do with the factors: retrieve, cluster, choose ranks, compare with baselines."""
