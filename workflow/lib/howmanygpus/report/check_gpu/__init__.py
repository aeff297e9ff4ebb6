"""What `make check-gpu` reports: findings from the records of its runs, and the page that shows them."""
