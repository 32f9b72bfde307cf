# Writes the result to the issue or the pull request, for every post-script.
publish() {
  local agent="$1" result labels body
  result="$(ls -d iteration-*/output | sort -V | tail -n 1)/agent-result.json"
  test "$(cat "$result")" = "$(cat "${FULLSEND_VALIDATED_ITERATION_DIR}/agent-result.json")"
  body="$(mktemp)"
  jq -r '.summary' "$result" > "$body"
  labels="$(jq -c '.labels' "$result")"
  echo "::group::Publishing ${agent}"
  case "${FULLSEND_FORGE}" in
    github)
      echo "::add-mask::${GH_TOKEN}"
      curl --silent --fail -X POST -H "Authorization: Bearer ${GH_TOKEN}" --data "{\"labels\":${labels}}" \
        "${GITHUB_API_URL}/repos/${REPO_FULL_NAME}/issues/${ISSUE_NUMBER}/labels" > /dev/null
      if [ "$agent" = review ]; then
        fullsend post-review --repo "${REPO_FULL_NAME}" --pr "${ISSUE_NUMBER}" --token "${GH_TOKEN}" --result "$result"
      else
        fullsend post-comment --repo "${REPO_FULL_NAME}" --number "${ISSUE_NUMBER}" --marker "<!-- acme:${agent} -->" \
          --token "${GH_TOKEN}" --result "$body"
      fi ;;
    gitlab)
      echo "::add-mask::${GITLAB_TOKEN}"
      fullsend issues post-comment --tracker gitlab --project "${REPO_FULL_NAME}" --number "${ISSUE_NUMBER}" \
        --marker "<!-- acme:${agent} -->" --token "${GITLAB_TOKEN}" --base-url "${GITLAB_URL}" --result "$body" ;;
    jira)
      fullsend issues post-comment --tracker jira --project "${JIRA_PROJECT}" --number "${ISSUE_NUMBER}" \
        --marker "[acme:${agent}]" --token "${JIRA_API_TOKEN}" --jira-url "${JIRA_URL}" --jira-email "${JIRA_EMAIL}" \
        --result "$body" ;;
  esac
  echo "::endgroup::"
}
