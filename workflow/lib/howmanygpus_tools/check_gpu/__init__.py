"""The report of `make check-gpu`: findings from the records of its runs, and the page that shows them."""
