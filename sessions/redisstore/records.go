package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/acpgate/acpgate/sessions"
)

// Read implements sessions.Store.
func (s *Store) Read(ctx context.Context, principal string, keys ...string) ([]sessions.Record, error) {
	if err := sessions.CheckRead(principal, keys); err != nil || len(keys) == 0 {
		return nil, err
	}
	p := s.space(principal)
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = p.record(key)
	}
	values, err := s.client.MGet(ctx, names...).Result()
	if err != nil {
		return nil, s.outside(ctx, err)
	}
	out := make([]sessions.Record, len(keys))
	for i, key := range keys {
		out[i].Key = key
		text, there := values[i].(string)
		if !there {
			continue
		}
		if len(text) < versionDigits {
			return nil, s.outside(ctx, fmt.Errorf("record %s is not one of acpgate", names[i]))
		}
		if out[i].Version, err = strconv.ParseUint(text[:versionDigits], 10, 64); err != nil {
			return nil, s.outside(ctx, err)
		}
		out[i].Value = []byte(text[versionDigits:])
	}
	return out, nil
}

// Commit implements sessions.Store.
func (s *Store) Commit(ctx context.Context, principal string, c sessions.Commit) error {
	if err := cmp.Or(sessions.CheckNames(principal), c.Check(), ctx.Err()); err != nil {
		return err
	}
	keys, args := s.space(principal).commit(c, time.Now())
	failed, err := s.commit.run(ctx, s.client, keys, args).Int()
	if err != nil {
		return s.outside(ctx, err)
	}
	if failed > 0 {
		return fmt.Errorf("%w: %s", sessions.ErrConflict, c.Expect[failed-1].Key)
	}
	return nil
}

// commit makes the keys and arguments of commit.lua. now is where the counter of versions starts if there is none.
func (p space) commit(c sessions.Commit, now time.Time) (keys []string, args []any) {
	keys = append(keys, p.counter())
	var changed []string
	for _, w := range c.Writes {
		changed = append(changed, w.Key)
	}
	args = append(args, now.UnixMicro(), p.channel(), strings.Join(changed, told), len(c.Expect), len(c.Writes), len(c.Indexes))
	for _, e := range c.Expect {
		keys = append(keys, p.record(e.Key))
		args = append(args, versionText(e.Version))
	}
	for _, w := range c.Writes {
		keys = append(keys, p.record(w.Key))
		if w.Delete {
			args = append(args, "del", 0, "")
			continue
		}
		// Up to the next millisecond: a record never ends before its time, and 0 is for ever.
		ttl := (w.TTL + time.Millisecond - 1).Milliseconds()
		args = append(args, "set", ttl, w.Value)
	}
	for _, x := range c.Indexes {
		keys = append(keys, p.order(x.Index), p.rows(x.Index))
		place := ""
		if !x.Remove {
			place = orderText(x.Score)
		}
		args = append(args, place, x.Member, x.Value)
	}
	return keys, args
}

// Scan implements sessions.Store.
func (s *Store) Scan(ctx context.Context, principal, index string, q sessions.Query) ([]sessions.IndexRow, error) {
	if err := sessions.CheckNames(principal, index); err != nil {
		return nil, err
	}
	p, after := s.space(principal), ""
	if q.After != nil {
		after = orderText(q.After.Score) + q.After.Member
	}
	var out []sessions.IndexRow
	for limit := q.Rows(); len(out) < limit; {
		asked := limit - len(out)
		places, err := s.places(ctx, p.order(index), after, q.Ascending, asked)
		if err != nil {
			return nil, s.outside(ctx, err)
		}
		if out, err = s.rows(ctx, out, p.rows(index), places); err != nil {
			return nil, s.outside(ctx, err)
		}
		if len(places) < asked {
			break
		}
		after = places[len(places)-1]
	}
	return out, nil
}

// places returns up to n members of the order behind a place, "" being before all of them.
func (s *Store) places(ctx context.Context, order, after string, ascending bool, n int) ([]string, error) {
	by := &redis.ZRangeBy{Min: "-", Max: "+", Count: int64(n)}
	if ascending { // texts descend where scores ascend
		if after != "" {
			by.Max = "(" + after
		}
		return s.client.ZRevRangeByLex(ctx, order, by).Result()
	}
	if after != "" {
		by.Min = "(" + after
	}
	return s.client.ZRangeByLex(ctx, order, by).Result()
}

// rows appends the rows at places to out. One that was removed after its place was read is left out; one that has moved
// is given where it was.
func (s *Store) rows(ctx context.Context, out []sessions.IndexRow, key string, places []string) ([]sessions.IndexRow, error) {
	if len(places) == 0 {
		return out, nil
	}
	names := make([]string, len(places))
	for i, place := range places {
		names[i] = place[orderBytes:]
	}
	values, err := s.client.HMGet(ctx, key, names...).Result()
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		if text, there := values[i].(string); there {
			if len(text) < orderBytes {
				return nil, errors.New("index " + key + " is not one of acpgate")
			}
			out = append(out, sessions.IndexRow{Member: names[i], Score: orderScore(place), Value: []byte(text[orderBytes:])})
		}
	}
	return out, nil
}
