package gateway

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the gateway's own, in a registry of their own. No label takes a value that comes from outside: methods,
// session ids and unknown close codes would be endless.
type metrics struct {
	registry *prometheus.Registry

	connections          prometheus.Gauge
	connects             prometheus.Counter
	refused              *prometheus.CounterVec // by reason word
	closes               *prometheus.CounterVec // by name of the close-code table
	framesIn, framesOut  prometheus.Counter
	bytesIn, bytesOut    prometheus.Counter
	socketWrites         prometheus.Counter
	errors               *prometheus.CounterVec // by JSON-RPC code
	responsesDropped     prometheus.Counter
	notificationsDropped prometheus.Counter
	lagging, tooBig      prometheus.Counter
	pauses               *prometheus.CounterVec // by bound
	attachments          prometheus.Gauge
	requestsOpen         prometheus.Gauge
	framesWaiting        prometheus.Gauge
	answerBytes          prometheus.Gauge
	pings, pingTimeouts  prometheus.Counter
	requests             *prometheus.CounterVec // HTTP, by route and status
	logins               *prometheus.CounterVec // by outcome
}

func newMetrics(others []Metric) (*metrics, error) {
	r := prometheus.NewRegistry()
	var errs []error
	register := func(c prometheus.Collector) {
		if err := r.Register(c); err != nil {
			errs = append(errs, err)
		}
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "acpgate", Name: name, Help: help})
		register(c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "acpgate", Name: name, Help: help}, labels)
		register(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "acpgate", Name: name, Help: help})
		register(g)
		return g
	}
	m := &metrics{
		registry:             r,
		connections:          gauge("connections", "WebSocket connections that are open."),
		connects:             counter("connects_total", "WebSocket connections that were accepted."),
		refused:              vec("connects_refused_total", "WebSocket upgrades that were refused, by reason.", "reason"),
		closes:               vec("closes_total", "Connections that ended, by close code.", "code"),
		framesIn:             counter("frames_received_total", "Frames of clients."),
		framesOut:            counter("frames_sent_total", "Frames to clients."),
		bytesIn:              counter("frame_bytes_received_total", "Payload bytes of frames of clients."),
		bytesOut:             counter("frame_bytes_sent_total", "Payload bytes of frames to clients."),
		socketWrites:         counter("socket_writes_total", "Writes to client sockets; frames that are ready together leave in one."),
		errors:               vec("errors_total", "Requests of clients that the gateway itself answered with an error, by JSON-RPC code.", "code"),
		responsesDropped:     counter("responses_dropped_total", "Responses of clients to requests that were not open."),
		notificationsDropped: counter("notifications_dropped_total", "Notifications that could not be delivered, in either direction."),
		lagging:              counter("lagging_total", "Connections closed because they fell behind what the journal retains."),
		tooBig:               counter("frames_too_big_total", "Frames of clients over the frame limit."),
		pauses:               vec("read_pauses_total", "Times that a client was held back, by the bound that it met.", "bound"),
		attachments:          gauge("attachments", "Sessions in use by connections."),
		requestsOpen:         gauge("requests_open", "Requests of clients that were not answered yet."),
		framesWaiting:        gauge("frames_waiting", "Frames of clients that wait behind a slow request of their session, or behind initialize."),
		answerBytes:          gauge("answer_bytes_waiting", "Bytes of answers and connection-level notifications that wait for client sockets."),
		pings:                counter("pings_total", "WebSocket pings sent."),
		pingTimeouts:         counter("ping_timeouts_total", "Connections closed because a pong was missing."),
		requests:             vec("http_requests_total", "HTTP requests, by route and status.", "route", "status"),
		logins:               vec("logins_total", "Logins, by outcome.", "outcome"),
	}
	register(collectors.NewGoCollector())
	register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, o := range others {
		if o.Counter {
			register(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "acpgate", Name: o.Name, Help: o.Help}, o.Value))
		} else {
			register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "acpgate", Name: o.Name, Help: o.Help}, o.Value))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("metrics: %w", errs[0])
	}
	return m, nil
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
