"""What consumers follow: the word a pointer holds, and who may write it."""
