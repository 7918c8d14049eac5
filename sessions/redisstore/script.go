package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed commit.lua
var commitSource string

//go:embed append.lua
var appendSource string

// script is a Lua script that Redis knows by the SHA-1 of its source, once it has seen that.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// once is a command that is never sent a second time: nobody could tell whether the first has been carried out.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// command makes a command that runs the script, by its hash or with its source.
func (s script) command(ctx context.Context, known bool, keys []string, args []any) once {
	all := make([]any, 0, 3+len(keys)+len(args))
	if known {
		all = append(all, "evalsha", s.sha)
	} else {
		all = append(all, "eval", s.source)
	}
	all = append(all, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return once{redis.NewCmd(ctx, append(all, args...)...)}
}

// run runs the script. A Redis that does not know it, because it has been started anew, gets its source.
func (s script) run(ctx context.Context, client redis.UniversalClient, keys []string, args []any) *redis.Cmd {
	cmd := s.command(ctx, true, keys, args)
	if err := client.Process(ctx, cmd); unknownScript(err) {
		cmd = s.command(ctx, false, keys, args)
		_ = client.Process(ctx, cmd) // the command has the error
	}
	return cmd.Cmd
}

// unknownScript reports whether Redis did not carry the command out because it does not know the script.
func unknownScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }
