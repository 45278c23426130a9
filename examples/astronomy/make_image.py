"""Make an image of two hundred stars on a noisy sky, image.fits, and the table of their places, stars.csv."""

import pathlib

import numpy
from astropy.io import fits
from skimage.filters import gaussian

SIZE, STARS, WIDTH, NOISE = 512, 200, 1.5, 10.0

folder = pathlib.Path("pilotage-data/astronomy")
folder.mkdir(parents=True, exist_ok=True)
draw = numpy.random.default_rng(1)
places = draw.integers(16, SIZE - 16, size=(STARS, 2))
sky = numpy.zeros((SIZE, SIZE))
numpy.add.at(sky, tuple(places.T), draw.uniform(200, 3000, size=STARS))
image = gaussian(sky, WIDTH) + draw.normal(100, NOISE, size=sky.shape)
fits.writeto(folder / "image.fits", image.astype("float32"), overwrite=True)
numpy.savetxt(folder / "stars.csv", places, fmt="%d", delimiter=",")
