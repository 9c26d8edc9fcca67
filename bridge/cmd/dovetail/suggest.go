package main

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns a question with the known name that is most similar to a name, to be added to an error, or "" if none
// is similar.
func didYouMean(name string, known []string) string {
	if closest := closestName(name, known); closest != "" {
		return fmt.Sprintf("; did you mean %q?", closest)
	}
	return ""
}

// maxCompared is the length of the longest name that is compared, in bytes. The time for a pair is its square.
const maxCompared = 200

// closestName returns the name with the fewest typing errors, at most one for three letters, and of these the one of the
// most similar length. Without one it returns the shortest name that begins with the typed three letters or more. Case
// does not matter.
func closestName(name string, known []string) string {
	typed := strings.ToLower(name)
	if len(typed) > maxCompared {
		return ""
	}
	closest, least, difference := "", (len(typed)+1)/3, len(typed)
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if len(candidate) > maxCompared {
			continue
		}
		mistakes, longer := typingErrors(typed, strings.ToLower(candidate)), max(len(candidate)-len(typed), len(typed)-len(candidate))
		if mistakes < least || mistakes == least && longer < difference {
			closest, least, difference = candidate, mistakes, longer
		}
	}
	if closest == "" && len(typed) >= 3 {
		for _, candidate := range known {
			if strings.HasPrefix(strings.ToLower(candidate), typed) && (closest == "" || len(candidate) < len(closest)) {
				closest = candidate
			}
		}
	}
	return closest
}

// typingErrors returns the least number of letters to add, to remove, to replace, or to swap with the next one, that
// makes b of a (optimal string alignment distance).
func typingErrors(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range to {
		rows[0][j+1] = j + 1
	}
	for i, x := range from {
		for j, y := range to {
			replaced := rows[i][j]
			if x != y {
				replaced++
			}
			rows[i+1][j+1] = min(rows[i][j+1]+1, rows[i+1][j]+1, replaced)
			if i > 0 && j > 0 && x == to[j-1] && from[i-1] == y {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(from)][len(to)]
}
