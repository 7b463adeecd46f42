# Every target is one line that calls cargo or a script in dev/. Each script says at its top what it does.
# No shell between make and a script: at Ctrl-C make waits until the script has cleaned up. Hence no shell syntax here.
.PHONY: demo test lint chart crds bench

# make demo KEEP=1 leaves it running
demo: ; @dev/demo/run
test: ; @dev/test
lint: ; @dev/lint
chart: ; @dev/chart/run
crds: ; BLESS=1 cargo test --test it generated
bench: ; @dev/bench/run
