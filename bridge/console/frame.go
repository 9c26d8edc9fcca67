package console

import "time"

// A shownRow is a row in a frame. It has names, times and outcomes, and nothing of what a call contains, so viewers get it too.
// Times are in microseconds.
type shownRow struct {
	ID            uint64 `json:"id"`
	At            int64  `json:"at"`
	Kind          string `json:"kind"`
	Server        string `json:"server"`
	Name          string `json:"name"`
	Exposed       string `json:"exposed"`
	Outcome       string `json:"outcome"`
	Ended         bool   `json:"ended"`
	Caller        string `json:"caller"`
	Client        string `json:"client"`
	Version       string `json:"version"`
	ServerVersion string `json:"serverVersion,omitempty"`
	Effect        string `json:"effect,omitempty"`
	Rule          string `json:"rule,omitempty"`
	Took          int64  `json:"took"`
	Person        int64  `json:"person"`
	Queued        int64  `json:"queued"`
	Served        int64  `json:"served"`
	Open          string `json:"open,omitempty"` // the phase that goes on
	Runs          int    `json:"runs"`
	Task          bool   `json:"task,omitempty"`
	Polls         int    `json:"polls,omitempty"`
	Progress      string `json:"progress,omitempty"`
	Total         string `json:"total,omitempty"`
	BytesIn       int    `json:"bytesIn"`
	BytesOut      int    `json:"bytesOut"`
	By            string `json:"by,omitempty"`
	Script        string `json:"script,omitempty"`
}

// shown returns a row for a frame. The mutex of the recorder is held.
func (w *row) shown(now time.Time) shownRow {
	w.advance(now)
	last := w.ended
	if last.IsZero() {
		last = now
	}
	s := shownRow{
		ID: w.id, At: w.began.UnixMicro(), Kind: w.kind.String(), Server: w.server, Name: w.name, Exposed: w.exposed,
		Outcome: w.state(), Ended: !w.ended.IsZero(), Caller: w.caller, Client: w.client, Version: w.clientVersion, ServerVersion: w.serverVersion,
		Took: last.Sub(w.began).Microseconds(), Person: w.took[person].Microseconds(), Queued: w.took[queued].Microseconds(), Served: w.took[served].Microseconds(),
		Open: phaseNames[w.phase()], Runs: w.runs, Task: w.taskID != "", Polls: w.polls, Progress: w.progress, Total: w.total,
		BytesIn: w.bytesIn, BytesOut: w.bytesOut, By: w.by, Script: w.script,
	}
	if w.decided {
		s.Effect, s.Rule = w.decision.Effect.String(), w.decision.Rule
	}
	return s
}

// state returns the outcome of a call, or what it does.
func (w *row) state() string {
	switch {
	case !w.ended.IsZero():
		return w.outcome
	case w.asked:
		return "asking"
	case w.in[person] > 0:
		return "waiting"
	}
	return "running"
}

// changedSince returns the rows that have changed since a version of the recorder, the newest call first, and the version now.
func (r *Recorder) changedSince(version uint64) ([]shownRow, uint64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(now)
	var rows []shownRow
	for e := r.changes.Back(); e != nil && e.Value.(*row).version > version; e = e.Prev() {
		rows = append(rows, e.Value.(*row).shown(now))
	}
	return rows, r.version
}

// A shownServer is a server of the bridge in a frame, for viewers too.
type shownServer struct {
	Alias     string `json:"alias"`
	Status    string `json:"status"`
	Since     int64  `json:"since"`
	Version   string `json:"version"`
	NextTry   int64  `json:"nextTry,omitempty"`
	Restarts  int    `json:"restarts"`
	Running   int    `json:"running"`
	Queued    int    `json:"queued"`
	Sessions  int    `json:"sessions"`
	Tools     int    `json:"tools"`
	Prompts   int    `json:"prompts"`
	Resources int    `json:"resources"`
	Held      int    `json:"held"`
	Tokens    int    `json:"tokens"` // estimated
	summary
}

// micros returns microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
