"""Mix-of-Granularity and its graph variant (Zhong et al. 2024), as in the paper."""
