"""Run 500 jobs, and read each as it ends."""

from pilotage.client import Client


def main() -> None:
    """Add the squares of 0 to 499, in whatever order they come."""
    with Client() as client:
        task = client.map("echo $(({value} * {value}))", range(500), name="squares")
        total = 0
        for many, job in enumerate(task.as_completed(), start=1):
            number = int(job["parameters"]["value"])
            total += number * number
            if many % 100 == 0:
                print(f"{many} jobs have ended")
        task.check()
    print(f"{many} jobs, sum of squares {total}")


if __name__ == "__main__":
    main()
