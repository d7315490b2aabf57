"""The numbers of the elements above a limit, in order (PyCUDA's wiki: select_to_list), by a scan instead of atomics."""

import numpy as np

import xferlib as xl

running = xl.scan("a + b", neutral="0")
store = xl.elementwise("float *a, float limit, int *place, int *chosen", "if (a[i] >= limit) chosen[place[i] - 1] = i")
is_chosen = xl.elementwise("float a, float limit", "int mask", "mask = a >= limit")


def main(count: int = 256 * 256, limit: float = 0.9) -> None:
    a = xl.random.default_rng(0).random(count, "float32")
    start = xl.current_stream().record()
    place = running(is_chosen(a, limit))
    chosen = xl.empty(int(xl.to_host(place[-1:])[0]), "int32")
    store(a, limit, place, chosen)
    print(f"{xl.current_stream().record().elapsed_ms(start):.3f} ms")
    np.testing.assert_array_equal(xl.to_host(chosen), np.flatnonzero(xl.to_host(a) >= np.float32(limit)))
    print(f"{len(chosen)} of {count} chosen")


if __name__ == "__main__":
    main()
