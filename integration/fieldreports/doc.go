// Package fieldreports holds docs/field-reports.md to the tests: every failure that is
// known from the field has a test that names its id, or a reason why it has none.
//
// It knows nothing of what the reports say, and tests no outcome itself.
package fieldreports
