"""Membership inference: was the model fitted to this record?"""
