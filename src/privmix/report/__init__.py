"""The page that answers the question, made from scores and models."""
