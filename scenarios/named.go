package scenarios

// named is every scenario that tells one story.
var named []Scenario
