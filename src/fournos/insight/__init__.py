"""What is known about objects and what belongs to them: why they wait, what they do, how they ended."""
