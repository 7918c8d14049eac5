package demo

import "sync"

// lanes run functions one after the other per key and side by side across keys. A lane has a goroutine only while it has
// work. The zero value is ready.
type lanes struct {
	mu    sync.Mutex
	queue map[string][]func() // an entry, maybe empty, for every lane that has a goroutine
	ended bool
	wg    sync.WaitGroup
}

// run appends fn to the lane. It never waits. After stop it does nothing.
func (l *lanes) run(key string, fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.queue == nil {
		l.queue = map[string][]func(){}
	}
	q, running := l.queue[key]
	l.queue[key] = append(q, fn)
	if !running {
		l.wg.Add(1)
		go l.drain(key)
	}
}

func (l *lanes) drain(key string) {
	defer l.wg.Done()
	for {
		l.mu.Lock()
		q := l.queue[key]
		if len(q) == 0 {
			delete(l.queue, key)
			l.mu.Unlock()
			return
		}
		fn := q[0]
		l.queue[key] = q[1:]
		l.mu.Unlock()
		fn()
	}
}

// stop takes no more work and waits for what was taken.
func (l *lanes) stop() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.wg.Wait()
}
