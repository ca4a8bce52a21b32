"""Experiments of the paper (Zhong et al. 2024)."""
