/* Which node has which place after any nodes have left, against a slow and simple reference. */
#include "config.h"
#include "t/unit/unit.h"

#include <stdlib.h>

#include "spank/step/seats.h"

#define NODES_MAX 12

/* Each node's place: its seat, WAITS or GONE. */
enum { WAITS = -1, GONE = -2 };

static void leave(int *place, int n, int node)
{
    int was = place[node], spare = 0;
    place[node] = GONE;
    while (spare < n && place[spare] != WAITS)
        spare++;
    for (int i = 0; was >= 0 && spare == n && i < n; i++)
        if (place[i] > was)
            place[i]--;
    if (was >= 0 && spare < n)
        place[spare] = was;
}

static int count_seats(const int *place, int n)
{
    int seats = 0;
    for (int i = 0; i < n; i++)
        seats += place[i] >= 0;
    return seats;
}

static void any_order_of_leaving_is_as_the_reference_says(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 5000; round++) {
        int place[NODES_MAX], n = 1 + rand() % NODES_MAX, n_spares = rand() % n;
        struct seats s;
        assert_int_equal(seats_open(&s, n, n_spares), 0);
        for (int i = 0; i < n; i++)
            place[i] = i < n - n_spares ? i : WAITS;
        for (int left = 0; left < n + 3; left++) { /* some twice */
            int node = rand() % n, was = place[node], taker = seats_leave(&s, node);
            leave(place, n, node);
            assert_true(was < 0 ? taker == -1 : taker == -1 || place[taker] == was);
            assert_int_equal(s.n, count_seats(place, n));
            for (int i = 0; i < n; i++)
                assert_int_equal(seats_of(&s, i), place[i] < 0 ? -1 : place[i]);
            for (int i = 0; i < s.n; i++)
                assert_int_equal(place[s.node[i]], i);
        }
        seats_close(&s);
    }
}

/* As a user reads it. */
static void a_spare_takes_the_seat_and_without_one_the_others_move_up(void **state)
{
    struct seats s;
    (void)state;
    assert_int_equal(seats_open(&s, 4, 1), 0);
    assert_int_equal(s.n, 3);
    assert_int_equal(seats_of(&s, 3), -1);
    assert_int_equal(seats_leave(&s, 0), 3);
    assert_int_equal(seats_of(&s, 3), 0);
    assert_int_equal(seats_of(&s, 0), -1);
    assert_int_equal(seats_leave(&s, 1), -1);
    assert_int_equal(s.n, 2);
    assert_int_equal(seats_of(&s, 2), 1);
    seats_close(&s);
    assert_int_equal(seats_open(&s, 4, 2), 0);
    assert_int_equal(seats_leave(&s, 2), -1); /* a spare: nobody moves, and it takes nobody's seat */
    assert_int_equal(seats_leave(&s, 1), 3);
    seats_close(&s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_order_of_leaving_is_as_the_reference_says),
    cmocka_unit_test(a_spare_takes_the_seat_and_without_one_the_others_move_up),
};

UNIT_MAIN(tests)
