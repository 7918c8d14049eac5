package main

import (
	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/gateway"
	"github.com/acpgate/acpgate/sessions"
)

// metrics are what the pool and the manager count, as the gateway exposes it. A scrape asks for each value by itself.
func metrics(pool *agentpool.Pool, manager *sessions.Manager) []gateway.Metric {
	ofPool := func(name, help string, value func(agentpool.Stats) uint64) gateway.Metric {
		return gateway.Metric{Name: "agent_" + name + "_total", Help: help, Counter: true, Value: func() float64 {
			return float64(value(pool.Stats()))
		}}
	}
	ofAgents := func(name, help string, value func(agentpool.AgentStats) int) gateway.Metric {
		return gateway.Metric{Name: "agent_" + name, Help: help, Value: func() float64 {
			sum := 0
			for _, a := range pool.Stats().Agents {
				sum += value(a)
			}
			return float64(sum)
		}}
	}
	ofManager := func(name, help string, value func(sessions.Stats) int64) gateway.Metric {
		return gateway.Metric{Name: name, Help: help, Value: func() float64 { return float64(value(manager.Stats())) }}
	}
	return []gateway.Metric{
		ofPool("starts", "Agent processes started.", func(s agentpool.Stats) uint64 { return s.Starts }),
		ofPool("start_failures", "Agent processes that failed before they had answered initialize.", func(s agentpool.Stats) uint64 { return s.StartFailures }),
		ofPool("crashes", "Agent processes that ended by themselves.", func(s agentpool.Stats) uint64 { return s.Crashes }),
		ofPool("noise_lines", "Lines on agents' stdout that were no messages.", func(s agentpool.Stats) uint64 { return s.NoiseLines }),
		ofPool("stderr_bytes", "Bytes that agents wrote to stderr.", func(s agentpool.Stats) uint64 { return s.StderrBytes }),
		ofPool("skipped_lines", "Lines of agents over the line limit.", func(s agentpool.Stats) uint64 { return s.SkippedLines }),
		ofPool("skipped_bytes", "Bytes of lines of agents over the line limit.", func(s agentpool.Stats) uint64 { return s.SkippedBytes }),
		ofPool("held_lines", "Updates that came before the session that they belong to.", func(s agentpool.Stats) uint64 { return s.HeldLines }),
		ofPool("held_dropped", "Updates dropped because too many came before their session.", func(s agentpool.Stats) uint64 { return s.HeldDropped }),
		ofPool("unknown_responses", "Responses of agents to requests that were not open.", func(s agentpool.Stats) uint64 { return s.UnknownResponses }),
		ofPool("late_answers", "Answers to requests of agents that were not open any more.", func(s agentpool.Stats) uint64 { return s.LateAnswers }),
		ofPool("refused_requests", "Requests of agents that nobody could decide.", func(s agentpool.Stats) uint64 { return s.RefusedRequests }),
		ofPool("stdin_stalled", "Messages refused because an agent did not read its input.", func(s agentpool.Stats) uint64 { return s.StdinStalled }),
		ofPool("file_reads", "Files read for agents.", func(s agentpool.Stats) uint64 { return s.FileReads }),
		ofPool("file_writes", "Files written for agents.", func(s agentpool.Stats) uint64 { return s.FileWrites }),
		ofPool("file_failures", "File requests of agents that failed.", func(s agentpool.Stats) uint64 { return s.FileFailures }),

		ofAgents("processes", "Agent processes that run or start.", func(a agentpool.AgentStats) int { return a.Processes }),
		ofAgents("processes_idle", "Agent processes that nobody uses.", func(a agentpool.AgentStats) int { return a.Idle }),
		ofAgents("handles", "Users of agent processes: sessions and calls.", func(a agentpool.AgentStats) int { return a.Handles }),
		ofAgents("broken", "Agents, counted once for each user, that are not started for now because they failed too often.", func(a agentpool.AgentStats) int { return a.Broken }),
		ofAgents("stdin_bytes", "Bytes that wait to be read by agents.", func(a agentpool.AgentStats) int { return a.Stdin }),

		ofManager("sessions", "Live sessions.", func(s sessions.Stats) int64 { return int64(s.Views) }),
		ofManager("sessions_asleep", "Live sessions whose agent side is closed.", func(s sessions.Stats) int64 { return int64(s.Asleep) }),
		ofManager("turns_running", "Turns that run.", func(s sessions.Stats) int64 { return int64(s.Running) }),
		ofManager("prompts_queued", "Prompts that wait behind a turn.", func(s sessions.Stats) int64 { return int64(s.Queued) }),
		ofManager("agent_requests_open", "Requests of agents that wait for a person.", func(s sessions.Stats) int64 { return int64(s.Requests) }),
		ofManager("journal_bytes", "Memory of all journals.", func(s sessions.Stats) int64 { return s.JournalBytes }),
	}
}
