#!/usr/bin/env bash
# Finding:  In polars 2.1.0 a product or a quotient of decimals has as many digits as its factors, where 1.31.0 has
#           more: 1.25 x 1.25 is 1.56 instead of 1.5625, and 1.00 / 3.00 is 0.33 instead of 0.333333, so that three
#           times the third of 1.00 is 0.99. Half of 1.25 is 0.62.
# Packages: polars==2.1.0
# Topic:    silent changes in new releases
# Source:   github.com/pola-rs/polars, pull request 24542: decimals keep their scale in arithmetic, and conversions
#           round to the nearest, ties to even
# Guess:    more digits, as in SQL, and equal in both (75 %).
# Hurts:    whoever divides node hours or costs that are decimals: shares and prices per image lose their digits
#           silently.
# Here:     hours and costs are floating-point numbers
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old polars==1.31.0
cat > digits.py <<'P'
import sys

sys.path[:0] = sys.argv[1:]
import polars as pl

one, three, price = (pl.Series([text]).cast(pl.Decimal(10, 2)) for text in ("1.00", "3.00", "1.25"))
for result in (price * price, one / three, one / three * three, price / 2):
    print(result[0], end=" ")
P
old=$("$python" digits.py old)
new=$("$python" digits.py)
echo "1.25 x 1.25, 1.00 / 3.00, three times it, 1.25 / 2; 1.31.0: $old; 2.1.0: $new"
test "$old" = "1.5625 0.333333 0.999999000000 0.625000 "
test "$new" = "1.56 0.33 0.99 0.62 "
