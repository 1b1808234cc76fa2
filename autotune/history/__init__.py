"""What this user's runs store for later ones: their commands, and the accuracy of predictions."""
