package memory

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/dovetail-go/dovetail/server"
)

// New returns a server that remembers in store. It does not close the store.
func New(store Store, opts *Options) *server.Server {
	options := opts.withDefaults()
	k := &keeper{
		options: options,
		store:   &screen{store: store, timeout: options.Timeout, logger: options.Server.Logger},
		server:  server.New(options.Info, options.Server),
	}
	k.addConversations()
	k.addFacts()
	return k.server
}

// A keeper is what the tools and the resource have in common.
type keeper struct {
	options Options
	store   Store
	server  *server.Server
}

// owner is whose memory a call is about.
func (k *keeper) owner(r *server.Request) string {
	if k.options.Shared {
		return ""
	}
	return r.Caller().Principal
}

// updated tells subscribers of a conversation that it is another, or gone.
func (k *keeper) updated(r *server.Request, id string) {
	k.server.ResourceUpdatedFor(k.owner(r), conversationURI(id))
}

// checkName refuses names that could not be listed, read or logged.
func (k *keeper) checkName(argument, name string) error {
	if err := checkLength(argument, name, k.options.MaxName); err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("%s: expected 1 to %d bytes, got none", argument, k.options.MaxName)
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s: expected no control characters", argument)
	}
	return nil
}

func checkLength(argument, text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("%s: expected at most %d bytes, got %d", argument, most, len(text))
	}
	return nil
}
