# sales.awk: print ROWS orders as CSV, the same ones every time: awk -v ROWS=4000 -f sales.awk

# The minimal standard generator: its products stay below 2^53, so every awk computes the same numbers.
function random(n) { state = (state * 16807) % 2147483647; return state % n }

BEGIN {
  state = 20260101
  regions = split("north south east west overseas", region, " ")
  split("5 3 4 2 1", weight, " ")
  products = split("anvil bellows chisel drill easel", product, " ")
  split("18900 7450 1225 9999 4310", cents, " ")
  print "order,date,region,product,quantity,price"
  for (row = 0; row < ROWS; row++) {
    pick = random(15)
    for (r = 1; pick >= weight[r]; r++) pick -= weight[r]
    p = 1 + random(products)
    price = cents[p] - random(int(cents[p] / 5))
    day = int(row * 336 / ROWS)
    printf "A%05d,2026-%02d-%02d,%s,%s,%d,%d.%02d\n", row + 1, 1 + int(day / 28), 1 + day % 28, region[r], product[p], 1 + random(12), int(price / 100), price % 100
  }
}
