"""How exact sums are laid out: the constants that `bopl._exact` and the kernels share."""

LIMB_BITS = 32
N_LIMBS = 71  # 67 of numbers, how many were NaN, infinite, and minus infinite, and a spare one
NAN, INF, MINUS_INF = 67, 68, 69  # places of the counts
LOWEST = 1075  # limb 0 counts units of 2^-1075, half the least subnormal number: exponents then need no offset
# Added to a number below 2^51, this leaves the number rounded to an integer in the low bits of the sum: 2^52 makes the
# last bit count ones, and the half above it keeps negative numbers from borrowing from the exponent.
TO_INTEGER = 1.5 * 2.0**52
