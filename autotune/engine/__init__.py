"""Rules and facts in, findings and recommendations out. Pure but for reading the rule files."""
