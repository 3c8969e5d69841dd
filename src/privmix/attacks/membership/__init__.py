"""Membership inference: was a record among those that a model was fitted to?"""
