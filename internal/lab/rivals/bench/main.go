// Bench does the same work with this module, with other libraries for MCP, and with bare
// transports, side by side. See README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done, err := runErrand(ctx, peers())
	if !done {
		err = run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	var (
		quick    = flag.Bool("quick", false, "hold only the contests that goals are about, three rounds of 100ms")
		rounds   = flag.Int("rounds", 10, "how many rounds there are")
		each     = flag.Duration("time", 300*time.Millisecond, "how long each entry works in a round")
		only     = flag.String("only", "", "hold only contests whose names match this regular expression")
		jsonFile = flag.String("json", "", "write the results to this file as well, as JSON")
		readme   = flag.String("readme", "", "write the results into this file, between its marks")
		strict   = flag.Bool("goals", false, "fail when a goal is broken")
	)
	flag.Parse()
	if *quick {
		*rounds, *each = 3, 100*time.Millisecond
	}
	if *rounds < 1 || flag.NArg() > 0 {
		return errors.New("at least one round, and no arguments, are wanted")
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	held := slices.DeleteFunc(contests(), func(c Contest) bool {
		return !pattern.MatchString(c.Name) || *quick && !slices.ContainsFunc(goals(), func(g Goal) bool { return g.Contest == c.Name })
	})
	result, err := holdAll(ctx, schedule{*rounds, *each}, held)
	if err != nil {
		return err
	}
	if *strict {
		if err := repeatBroken(ctx, schedule{10, *each}, held, result); err != nil {
			return err
		}
	}
	markdown(os.Stdout, result)
	if *readme != "" {
		err = errors.Join(err, writeReadme(*readme, result))
	}
	if *jsonFile != "" {
		err = errors.Join(err, writeJSON(*jsonFile, result))
	}
	if *strict {
		err = errors.Join(err, broken(result.Verdicts))
	}
	return err
}

// holdAll says on standard error how far it is.
func holdAll(ctx context.Context, s schedule, held []Contest) (*Result, error) {
	result := &Result{Machine: thisMachine(s.rounds, s.time)}
	for i, c := range held {
		fmt.Fprintf(os.Stderr, "%d/%d %s\n", i+1, len(held), c.Name)
		came, err := s.hold(ctx, c, peers())
		if err != nil {
			return nil, err
		}
		result.Contests = append(result.Contests, *came)
		for _, e := range came.Entries {
			if e.Failure != "" {
				fmt.Fprintf(os.Stderr, "\t%s: %s\n", e.Name, e.Failure)
			}
		}
		for _, g := range goals() {
			if g.Contest != c.Name {
				continue
			}
			v, err := judge(g, came)
			if err != nil {
				return nil, err
			}
			result.Verdicts = append(result.Verdicts, v)
		}
	}
	return result, nil
}

// repeatBroken holds the contests that broke a goal again, because a machine that was busy for a
// moment makes a few short rounds slow. The new results replace the old ones.
func repeatBroken(ctx context.Context, s schedule, held []Contest, result *Result) error {
	isBroken := func(contest string) bool {
		return slices.ContainsFunc(result.Verdicts, func(v Verdict) bool { return v.Contest == contest && v.Broken })
	}
	var again []Contest
	for _, c := range held {
		if isBroken(c.Name) {
			again = append(again, c)
		}
	}
	if again == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "goals are broken; these contests are held again:")
	repeated, err := holdAll(ctx, s, again)
	if err != nil {
		return err
	}
	for i, c := range result.Contests {
		for _, r := range repeated.Contests {
			if r.Name == c.Name {
				result.Contests[i] = r
			}
		}
	}
	result.Verdicts = slices.DeleteFunc(result.Verdicts, func(v Verdict) bool {
		return slices.ContainsFunc(again, func(c Contest) bool { return c.Name == v.Contest })
	})
	result.Verdicts = append(result.Verdicts, repeated.Verdicts...)
	return nil
}

func writeJSON(path string, r *Result) error {
	encoded, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o600)
}

// broken is an error that names what is.
func broken(verdicts []Verdict) error {
	var lines []string
	for _, v := range verdicts {
		if v.Broken {
			lines = append(lines, fmt.Sprintf("%s: %s is %s, want %s", v.Contest, v.what(), v.amount(v.Got), v.want()))
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("broken goals:\n%s", strings.Join(lines, "\n"))
}
