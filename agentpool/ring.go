package agentpool

import "sync"

// ring keeps the last bytes written to it. It is safe for concurrent use and grows to its size only when it is used.
type ring struct {
	mu   sync.Mutex
	size int
	buf  []byte
	next int // where the oldest byte is, once buf is full
}

func newRing(size int) *ring { return &ring{size: size} }

// Write never fails.
func (r *ring) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > r.size {
		p = p[len(p)-r.size:]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if free := r.size - len(r.buf); free > 0 {
		k := min(free, len(p))
		r.buf = append(r.buf, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.next:], p)
		r.next = (r.next + k) % r.size
		p = p[k:]
	}
	return n, nil
}

// Tail returns at most the last n bytes, from the start of a line where one begins within them.
func (r *ring) Tail(n int) string {
	r.mu.Lock()
	all := append(append(make([]byte, 0, len(r.buf)), r.buf[r.next:]...), r.buf[:r.next]...)
	r.mu.Unlock()
	if len(all) <= n && len(all) < r.size {
		return string(all)
	}
	tail := all[max(0, len(all)-n):]
	for i, c := range tail {
		if c == '\n' && i+1 < len(tail) {
			return string(tail[i+1:])
		}
	}
	return string(tail)
}
