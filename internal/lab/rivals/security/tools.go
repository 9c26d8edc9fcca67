package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A tool is what the servers of all peers offer.
type tool struct {
	name   string
	schema string
	run    func(ctx context.Context, in map[string]any, progress func(message string)) (string, error)
}

// ran is in the result of each tool, to see that it has run.
const ran = "THE TOOL HAS RUN"

// leaked is what a tool panics with.
const leaked = "postgresql://admin:s3cr3t_p4ss@db.internal:5432/production"

// clean is a harmless text.
const clean = "The file was read successfully. Contents: Hello, World!"

// running and peak count the calls of hold that run at the same time.
var running, peak atomic.Int64

// object returns the schema of an object without other members.
func object(properties string, required ...string) string {
	names, err := json.Marshal(required)
	if err != nil {
		panic(err)
	}
	if required == nil {
		names = []byte("[]")
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":false}`, properties, names)
}

// allTools returns the tools of the servers. The schemas admit only harmless arguments.
func allTools() []tool {
	say := func(key string) func(context.Context, map[string]any, func(string)) (string, error) {
		return func(_ context.Context, in map[string]any, _ func(string)) (string, error) {
			return fmt.Sprint(ran, " ", in[key]), nil
		}
	}
	return []tool{
		{"read", object(`"path":{"type":"string","pattern":"^/tmp/workspace/[a-z0-9_-]+([.][a-z0-9]+)?$"}`, "path"), say("path")},
		{"run", object(`"command":{"type":"string","pattern":"^[a-z ]+$"}`, "command"), say("command")},
		{"fetch", object(`"url":{"type":"string","pattern":"^https://api[.]example[.]com/[a-z]*$"}`, "url"), say("url")},
		{"match", object(`"text":{"type":"string","pattern":"^(a+)+b$"}`, "text"), say("text")},
		{"echo", object(`"text":{"type":"string"}`, "text"), say("text")},
		{"any", `{"type":"object"}`, func(context.Context, map[string]any, func(string)) (string, error) { return ran, nil }},
		{"hello", object(""), func(context.Context, map[string]any, func(string)) (string, error) { return clean, nil }},
		{"crash", object(""), func(context.Context, map[string]any, func(string)) (string, error) {
			panic("connection failed: " + leaked)
		}},
		{"climb", object(`"mark":{"type":"string"}`, "mark"), func(_ context.Context, in map[string]any, progress func(string)) (string, error) {
			for range 3 {
				time.Sleep(30 * time.Millisecond)
				progress(fmt.Sprint(in["mark"]))
			}
			return fmt.Sprint(ran, " ", in["mark"]), nil
		}},
		{"hold", object(""), func(ctx context.Context, _ map[string]any, _ func(string)) (string, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for known := peak.Load(); now > known && !peak.CompareAndSwap(known, now); known = peak.Load() {
			}
			select {
			case <-time.After(holdTime):
			case <-ctx.Done():
			}
			return ran, nil
		}},
	}
}

// holdTime is how long a call of hold takes.
const holdTime = time.Second

// hasRun reports whether a reply shows that a tool has run.
func hasRun(text string) bool { return strings.Contains(text, ran) }
