package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// matrix is shared by the tests, so that each attack is made once.
var matrix *Matrix

func TestMain(m *testing.M) {
	if done, err := runRole(context.Background()); done || err != nil {
		exit(err)
	}
	quiet()
	matrix = newMatrix()
	code := m.Run()
	matrix.Close()
	os.Exit(code)
}

// TestMatrix makes all attacks. This module must not be unsafe, and the careless peer must not be safe.
func TestMatrix(t *testing.T) {
	for _, c := range matrix.cases {
		t.Run(c.ID, func(t *testing.T) {
			var others []Verdict
			for _, p := range matrix.peers {
				verdict, err := matrix.verdict(t.Context(), c, p)
				if err != nil {
					t.Fatal(err)
				}
				others = append(others, verdict)
				switch p {
				case matrix.peers[0]:
					if verdict == Unsafe || verdict == NotApplicable && c.Expected != passedOn {
						t.Errorf("%s is %s", p.Name, verdict)
					}
				case matrix.careless():
					if verdict != Unsafe {
						t.Errorf("the case does not find what the careless peer does: %s", verdict)
					}
				}
			}
			t.Log(others)
		})
	}
}

// TestCases checks that the cases are those of MCPSEC 1.1.0, and then the advisories.
func TestCases(t *testing.T) {
	counts := []int{8, 7, 6, 8, 5, 5, 5, 4, 6, 4, 3, 3}
	var want []string
	for class, count := range counts {
		for n := range count {
			want = append(want, fmt.Sprintf("A%d.%d", class+1, n+1))
		}
	}
	if len(want) != 64 {
		t.Fatalf("MCPSEC has 64 cases, not %d", len(want))
	}
	for i, c := range matrix.cases {
		if i < len(want) && c.ID != want[i] || i >= len(want) && !strings.HasPrefix(c.ID, "CVE-") {
			t.Errorf("case %d is %s", i, c.ID)
		}
	}
}

// TestSecurityPage checks that SECURITY.md has the table that this program prints, except the
// date and the versions.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("../../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := matrix.markdown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(printed, heading)
	if !strings.Contains(string(page), "\n"+dated) || !strings.Contains(string(page), "\n"+heading+want) {
		t.Errorf("SECURITY.md has another table. Replace it with this one:\n\n%s", printed)
	}
}
