"""How results are shown: text that a terminal may print, pages, figures."""
