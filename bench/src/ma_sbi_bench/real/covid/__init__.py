"""Covid-19: daily counts under policies."""
