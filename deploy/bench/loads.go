package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// load is one thing that a client process can do.
type load struct {
	prepare func(*client) error // before the clock runs
	run     func(*client) error
}

func loads() map[string]load {
	open := func(c *client) error { return c.open(false) }
	return map[string]load{
		"stream":  {open, stream},
		"paced":   {open, paced},
		"echo":    {open, roundTrips("_bench/echo")},
		"prompt":  {open, roundTrips("session/prompt")},
		"connect": {func(*client) error { return nil }, connects},
		"idle":    {func(c *client) error { return c.open(true) }, func(*client) error { return nil }},
		"beside":  {open, beside},
		"deaf":    {open, deaf},
		"load":    {open, replays},
		"joined":  {func(c *client) error { return errors.Join(c.open(false), prefill(c)) }, replays},
		"big":     {open, big},
	}
}

// stream has every session send its updates as fast as they come.
func stream(c *client) error {
	return each(len(c.users), len(c.users), func(i int) error {
		u := c.users[i]
		u.check = newChecker(u.session, false, c.Size)
		id, err := u.prompt(strconv.Itoa(c.Count))
		if err != nil {
			return err
		}
		return u.updates(id, c.Count)
	})
}

const paceInterval = 100 * time.Millisecond // of the agent "paced"

// paced has every session send updates at a pace, the sessions evenly spread over the interval.
func paced(c *client) error {
	began := time.Now()
	return each(len(c.users), len(c.users), func(i int) error {
		time.Sleep(time.Until(began.Add(paceInterval * time.Duration(i) / time.Duration(len(c.users)))))
		return stamped(c.users[i], c.Count)
	})
}

func stamped(u *user, count int) error {
	u.check = newChecker(u.session, true, smallUpdate)
	id, err := u.prompt(strconv.Itoa(count))
	if err != nil {
		return err
	}
	return u.updates(id, count)
}

// roundTrips sends one tiny request after the other.
func roundTrips(method string) func(*client) error {
	return func(c *client) error {
		u := c.users[0]
		for range c.Count {
			sent := time.Now()
			id, err := u.ask(method, "hi")
			if err != nil {
				return err
			}
			frame, err := u.next()
			if err != nil {
				return err
			}
			c.latencies = append(c.latencies, time.Since(sent))
			if _, err := result(frame, id); err != nil {
				return err
			}
		}
		return nil
	}
}

// connects opens and closes connections with a session, Workers at a time.
func connects(c *client) error {
	return each(c.Count, c.Workers, func(int) error {
		u, err := c.connect(true)
		if err != nil {
			return err
		}
		return u.close()
	})
}

// beside measures paced sessions while the last one, of the same process, is written to fast. Deaf, its client does not
// read: it may be cut off, but what it was sent until then must be whole and in order, and the others must not notice.
func beside(c *client) error {
	last := len(c.users) - 1
	flooded := c.users[last]
	c.users = c.users[:last]
	defer flooded.close()
	flooded.check = newChecker(flooded.session, false, largeUpdate)
	const floodEvery = 200 * time.Microsecond
	floods := int(time.Duration(c.Count) * 10 * time.Millisecond / floodEvery)
	id, err := flooded.ask("_bench/flood", strconv.Itoa(floods))
	if err != nil {
		return err
	}
	fast := make(chan error, 1)
	read := func() { fast <- flooded.updates(id, floods) }
	if !c.Deaf {
		go read()
	}
	err = each(last, last, func(i int) error { return stamped(c.users[i], c.Count) })
	if c.Deaf {
		go read()
	}
	err2 := <-fast
	var closed closeError
	if c.Deaf && (errors.Is(err2, io.EOF) || errors.Is(err2, io.ErrUnexpectedEOF) || errors.As(err2, new(*net.OpError)) || errors.As(err2, &closed) && closed.code == 1013) {
		err2 = nil
	}
	return errors.Join(err, err2)
}

// deaf has one session flooded whose client never reads. The other client sees when the agent has got rid of it all.
func deaf(c *client) error {
	if c.users[0].session != sessionName(1) {
		return fmt.Errorf("the first session is %s", c.users[0].session)
	}
	if _, err := c.users[1].ask("_bench/flood", strconv.Itoa(c.Count)); err != nil {
		return err
	}
	frame, err := c.users[0].next()
	if err == nil && !bytes.Contains(frame, []byte(endOfFlood)) {
		err = fmt.Errorf("expected the end of the flood: %s", clip(frame))
	}
	return err
}

// replays loads sessions with a history, one after the other. The median time is P50. The agent writes an update for each
// piece of a message; a gateway that has read them may send the message whole.
func replays(c *client) error {
	u := c.users[0]
	u.joined = true
	for i := range c.Count {
		sent := time.Now()
		session := sessionName(100_000 + i)
		id, err := u.request("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, session, c.Dir))
		if err != nil {
			return err
		}
		u.check = newChecker(session, false, smallUpdate)
		if err := u.updates(id, loadUpdates); err != nil {
			return err
		}
		c.latencies = append(c.latencies, time.Since(sent))
	}
	return nil
}

// prefill has the sessions loaded by another connection, so that replays finds them open.
func prefill(c *client) error {
	u, err := c.connect(false)
	if err != nil {
		return err
	}
	c.users = append(c.users, u)
	return replays(&client{job: c.job, users: []*user{u}})
}

// big sends a frame of Size bytes and gets its text back in an update.
func big(c *client) error {
	u := c.users[0]
	const empty = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"","prompt":[{"type":"text","text":""}]}}`
	text := strings.Repeat("0123456789abcdef", c.Size/16)[:c.Size-len(empty)-len(u.session)-1] // ids have two digits
	u.ids = 9
	for range c.Count {
		sent := time.Now()
		id, err := u.prompt(text)
		if err != nil {
			return err
		}
		frame, err := u.next()
		if err != nil {
			return err
		}
		prefix, suffix := updateLine(u.session, 0, 0)
		body, ok := bytes.CutPrefix(frame, []byte(prefix))
		body, ok2 := bytes.CutSuffix(body, []byte(suffix))
		if !ok || !ok2 || string(body) != text {
			return fmt.Errorf("%d bytes came back other than the %d that were sent: %s", len(body), len(text), clip(frame))
		}
		if frame, err = u.next(); err != nil {
			return err
		}
		c.latencies = append(c.latencies, time.Since(sent))
		if _, err := result(frame, id); err != nil {
			return err
		}
	}
	return nil
}
