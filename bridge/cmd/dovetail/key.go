package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

var keyCommand = &command{
	name: "key", args: "[FLAGS] NAME", short: "make an API key for a caller of dovetail serve -keys",
	long: `Prints a new random key on standard output, and its entry for the file of -keys on standard error. Only the
caller keeps the key: the file has its hash. The file is one object:

  {"keys": [{"name": "ci", "hash": "…", "roles": ["build"], "expires": "2027-01-01T00:00:00Z"}]}

dovetail serve reads it again when it changes. An entry that is removed is no longer valid. A caller sends
the key in the header "Authorization: Bearer KEY". Policies see it as the principal key:NAME.`,
	run: runKey,
}

// apiKeyPrefix begins the keys, so that scanners for secrets find them.
const apiKeyPrefix = "dovetail_"

func runKey(_ context.Context, env *environment, sub *command, line []string) error {
	entry := apiKey{}
	var life time.Duration
	flags := newFlags(sub, env.stderr)
	flags.Func("role", "a `role` of the caller, for policies; repeatable", func(role string) error {
		entry.Roles = append(entry.Roles, role)
		return nil
	})
	flags.DurationVar(&life, "expires", 0, "after which `time` the key is no longer valid, such as 2160h; 0 means never")
	args, command, err := flags.parse(line)
	switch {
	case err != nil:
		return err
	case len(args) != 1 || command != nil:
		return flags.usage()
	case life < 0:
		return misuse("-expires: expected a positive duration, or 0")
	}
	if life > 0 {
		entry.Expires = time.Now().Add(life).UTC().Truncate(time.Second)
	}
	key := oauth.Secret(apiKeyPrefix + rand.Text())
	entry.Name, entry.Hash = args[0], oauth.HashAPIKey(key)
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stderr, "%s\n", text)
	_, err = fmt.Fprintln(env.stdout, string(key))
	return err
}
