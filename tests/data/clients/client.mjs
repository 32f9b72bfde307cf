// Asks each URL with fetch, and says what came.
for (const url of process.argv.slice(2)) {
  try {
    const answer = await fetch(url);
    console.log(answer.status, (await answer.text()).trim());
  } catch (error) {
    console.log("failed", error.message, error.cause?.message);
  }
}
