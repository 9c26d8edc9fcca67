package pin

import (
	"cmp"
	"log/slog"
	"strings"

	"github.com/dovetail-go/dovetail/internal/peertext"
)

const (
	// maxLogged is how many names one log record has.
	maxLogged = 20
	// maxLoggedName is the length of such a name, in bytes.
	maxLoggedName = 128
)

// A pendingLog has entries that differ from their pins, for the log: a record for each server and reason.
type pendingLog []pendingGroup

// A pendingGroup has the entries of a server that differ for the same reason.
type pendingGroup struct {
	server, reason string
	quarantined    bool
	entries        int
	names          []string // of the first ones
}

// add adds an entry. from is the server behind the provider that has changed it, "" if that is the only one.
func (d *pendingLog) add(from string, pending *Pending, quarantined bool) {
	server := cmp.Or(from, pending.Server)
	var of *pendingGroup
	for i := range *d {
		if known := &(*d)[i]; known.server == server && known.reason == pending.Reason && known.quarantined == quarantined {
			of = known
		}
	}
	if of == nil {
		*d = append(*d, pendingGroup{server: server, reason: pending.Reason, quarantined: quarantined})
		of = &(*d)[len(*d)-1]
	}
	if of.entries++; of.entries > maxLogged {
		return
	}
	name := pending.Name
	if pending.Kind != Tool {
		name = string(pending.Kind) + ":" + name
	}
	of.names = append(of.names, peertext.Cut(name, maxLoggedName))
}

func (d pendingLog) log(logger *slog.Logger) {
	for _, of := range d {
		names := strings.Join(of.names, ", ")
		if of.entries > len(of.names) {
			names += ", …"
		}
		logger.Warn("entries are not as they were accepted", "server", of.server, "reason", of.reason, "quarantined", of.quarantined, "entries", of.entries, "names", names)
	}
}
