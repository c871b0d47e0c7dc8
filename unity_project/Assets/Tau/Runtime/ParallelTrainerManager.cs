using System;
using System.Threading;
using System.Threading.Tasks;
using Tau.Core;
using Unity.MLAgents;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// Starts, steps, reports and cancels the training of pairs in this game. It steps with ML-Agents' academy: before
    /// every step each pair asks for a decision, and the answers come within the step.
    /// </summary>
    /// <remarks>
    /// While a trainer is connected and pairs have a quota of decisions, a round of pairs that is through is followed
    /// by the next one: a trainer without agents would wait for ever. The one report tells of the last round.
    /// </remarks>
    [AddComponentMenu("Tau/Parallel Trainer Manager")]
    [DisallowMultipleComponent]
    public sealed class ParallelTrainerManager : MonoBehaviour
    {
        private TrainingPlan _plan;
        private TrainingRound _round;
        private CancellationTokenSource _cancellation;
        private Academy _academy;
        private EngineParameters _parameters;
        private CentralReport _report;
        private bool _rulesChanged;

        /// <summary>A training has ended, and this is its report.</summary>
        public event Action<CentralReport> Finished;

        /// <summary>Pairs train, or wait for their turn.</summary>
        public bool IsRunning => _round != null;

        /// <summary>What the last training died of, one sentence; null: nothing.</summary>
        public string Mistake { get; private set; }

        /// <summary>Rounds of pairs that are through, in the running or the last training.</summary>
        public int Rounds { get; private set; }

        /// <summary>What the pairs have done so far, or had done when they ended; null: nothing was started.</summary>
        public CentralReport Report => IsRunning ? _round.Report() : _report;

        private static bool IsConnected => Academy.IsInitialized && Academy.Instance.IsCommunicatorOn;

        /// <summary>The manager of the open scenes; null: there is none.</summary>
        public static ParallelTrainerManager FindExisting()
        {
            return SceneSearch.Find<ParallelTrainerManager>();
        }

        /// <summary>Makes the pairs and starts them.</summary>
        /// <param name="options">What to train; see <see cref="TauOptions"/>.</param>
        /// <exception cref="TauException">
        /// An option is wrong, the data cannot be used, or training runs already.
        /// </exception>
        public void StartTraining(TauOptions options)
        {
            if (options == null)
            {
                throw new ArgumentNullException(nameof(options));
            }
            if (IsRunning)
            {
                throw new TauException("Training is running already; end it with `training cancel` first.");
            }
            Academy academy = Academy.Instance; // connects to the trainer, which sends its parameters
            _plan = new TrainingPlan(options, academy);
            _round = new TrainingRound(_plan, 0);
            _cancellation = new CancellationTokenSource();
            Mistake = null;
            Rounds = 0;
            Debug.Log(_plan.Sentence(), this);
            Subscribe(academy);
            _ = PlayAsync(_cancellation.Token);
        }

        /// <summary>The state of all pairs as text for a console.</summary>
        public string Status()
        {
            CentralReport report = Report;
            return report == null ? "Nothing was started." : report.ToText();
        }

        /// <summary>Ends the training at once; pairs that wait for their turn do not start.</summary>
        /// <returns>Whether there was anything to end.</returns>
        public bool Cancel()
        {
            if (!IsRunning)
            {
                return false;
            }
            _cancellation.Cancel();
            End(); // not in the next frame, which may never come: the game may be closing
            return true;
        }

        private void OnApplicationQuit()
        {
            Cancel();
        }

        private void OnDestroy()
        {
            Cancel();
        }

        /// <summary>Plays rounds to the end. Nobody waits for it: whatever goes wrong is told here.</summary>
        private async Task PlayAsync(CancellationToken token)
        {
            try
            {
                while (await PlayRoundAsync(token))
                {
                    Debug.Log(FormattableString.Invariant($"Round {Rounds} is through, the next one begins."), this);
                    TrainingRound last = _round;
                    _round = new TrainingRound(_plan, Rounds);
                    last.Dispose();
                }
            }
            catch (Exception defect)
            {
                Mistake = defect.Message;
                Debug.LogException(defect, this);
            }
            if (!token.IsCancellationRequested)
            {
                End();
            }
        }

        /// <summary>Plays one round; says whether another one is to follow.</summary>
        private async Task<bool> PlayRoundAsync(CancellationToken token)
        {
            CentralReport report = await _round.RunAsync(token);
            if (token.IsCancellationRequested)
            {
                return false;
            }
            Rounds++;
            return _plan.Quota > 0 && IsConnected && HasCompleted(report);
        }

        private static bool HasCompleted(CentralReport report)
        {
            foreach (PairMetrics pair in report.Pairs)
            {
                if (pair.State == PairState.Completed)
                {
                    return true;
                }
            }
            return false;
        }

        /// <summary>
        /// Before every step of the academy; once more after another listener of the same step has cancelled.
        /// </summary>
        private void OnStep(int step)
        {
            if (!IsRunning)
            {
                return;
            }
            try
            {
                FollowRules();
                _round.Step(_academy.StatsRecorder);
            }
            catch (TauException mistake)
            {
                Mistake = mistake.Message;
                Debug.LogError(mistake.Message, this);
                Cancel();
            }
        }

        private void OnReset()
        {
            _round?.Reset();
            _rulesChanged = true;
        }

        private void FollowRules()
        {
            if (_rulesChanged)
            {
                _rulesChanged = false;
                _plan.Task.Update(_parameters.Get);
            }
        }

        private void Subscribe(Academy academy)
        {
            _academy = academy;
            _parameters = new EngineParameters(academy);
            _parameters.WatchRules(value => _rulesChanged = true);
            academy.AgentPreStep += OnStep;
            academy.OnEnvironmentReset += OnReset;
        }

        private void Unsubscribe()
        {
            if (Academy.IsInitialized && Academy.Instance == _academy)
            {
                _academy.AgentPreStep -= OnStep;
                _academy.OnEnvironmentReset -= OnReset;
                _parameters.WatchRules(null);
            }
            _academy = null;
        }

        /// <summary>Reports once, and leaves nothing behind.</summary>
        private void End()
        {
            if (!IsRunning)
            {
                return;
            }
            _report = _round.Report();
            Unsubscribe();
            _round.Dispose();
            _round = null;
            _cancellation.Dispose();
            Debug.Log(_report.ToText(), this);
            Finished?.Invoke(_report);
        }
    }
}
