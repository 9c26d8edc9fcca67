package main

import (
	"fmt"
	"io"

	"github.com/dovetail-go/dovetail/approval"
)

// verify checks a journal and says what is in it. The digest covers all of it: who keeps it
// elsewhere can tell later that nothing before has been changed.
func verify(path string, said io.Writer) error {
	summary, err := approval.Verify(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(said, "%s is whole: %d entries, digest %s\n", path, summary.Entries, summary.Head)
	if summary.Torn > 0 {
		fmt.Fprintf(said, "then %d bytes of an entry that was being written\n", summary.Torn)
	}
	for _, id := range summary.Open {
		fmt.Fprintf(said, "not ended: %s\n", id)
	}
	return nil
}
