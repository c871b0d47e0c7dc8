using System;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Tau.Core;
using Unity.MLAgents;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// Starts, steps, reports and cancels the training of pairs in this game. It steps with ML-Agents' academy: before
    /// every step each pair asks for a decision, and gets the answer within the step.
    /// </summary>
    /// <remarks>
    /// If a trainer is connected and pairs have a quota of decisions, a finished round of pairs is followed by the next
    /// one, because a trainer without agents would wait forever. The report is about the last round.
    /// </remarks>
    [AddComponentMenu("Tau/Parallel Trainer Manager")]
    [DisallowMultipleComponent]
    public sealed class ParallelTrainerManager : MonoBehaviour
    {
        private TrainingPlan _plan;
        private GameObject _agents;
        private ParallelTrainer _trainer;
        private Task<CentralReport> _round;
        private Academy _academy;
        private EngineParameters _parameters;
        private CentralReport _report;
        private bool _rulesChanged;

        /// <summary>Raised when a training has ended, with its report.</summary>
        public event Action<CentralReport> Finished;

        /// <summary>Whether pairs train or wait for their turn.</summary>
        public bool IsRunning => _trainer != null;

        /// <summary>The error that ended the last training, one sentence; null: none.</summary>
        public string Mistake { get; private set; }

        /// <summary>Number of finished rounds of pairs, in the running or the last training.</summary>
        public int Rounds { get; private set; }

        /// <summary>The pairs' current or final results; null if nothing was started.</summary>
        public CentralReport Report => IsRunning ? _trainer.Report() : _report;

        /// <summary>Makes the pairs and starts them.</summary>
        /// <param name="options">What to train; see <see cref="TauOptions"/>.</param>
        /// <exception cref="TauException">
        /// An option is wrong, the data cannot be used, or training is already running.
        /// </exception>
        public void StartTraining(TauOptions options)
        {
            if (IsRunning)
            {
                throw new TauException("Training is already running; end it with `training cancel` first.");
            }
            _academy = Academy.Instance; // connects to the trainer, which sends its parameters
            _plan = new TrainingPlan(options, _academy);
            Mistake = null;
            Rounds = 0;
            Debug.Log(_plan.Sentence(), this);
            _parameters = new EngineParameters(_academy);
            _parameters.WatchRules(value => _rulesChanged = true);
            _academy.AgentPreStep += OnStep;
            _academy.OnEnvironmentReset += OnReset;
            BeginRound();
        }

        /// <summary>The state of all pairs as text for a console.</summary>
        public string Status()
        {
            return Report?.ToText() ?? "No training was started.";
        }

        /// <summary>Ends the training at once; waiting pairs do not start.</summary>
        /// <returns>Whether a training was running.</returns>
        public bool Cancel()
        {
            if (!IsRunning)
            {
                return false;
            }
            _trainer.Cancel();
            End();
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

        /// <summary>
        /// Called before every step of the academy, and again if another listener of the same step has cancelled.
        /// </summary>
        private void OnStep(int step)
        {
            if (!IsRunning)
            {
                return;
            }
            try
            {
                if (_round.IsCompleted && !GoOn())
                {
                    return;
                }
                if (_rulesChanged)
                {
                    _rulesChanged = false;
                    _plan.Task.Update(_parameters.Get);
                }
                _trainer.Step();
                SendStatistics();
            }
            catch (Exception error)
            {
                Mistake = error.Message;
                Debug.LogError(error is TauException ? error.Message : error.ToString(), this);
                Cancel();
            }
        }

        private void OnReset()
        {
            _trainer?.Reset();
            _rulesChanged = true;
        }

        /// <summary>Called when all pairs have ended: starts the next round, or reports.</summary>
        private bool GoOn()
        {
            Rounds++;
            bool completed = _round.Result.Pairs.Any(pair => pair.State == PairState.Completed);
            if (_plan.Quota == 0 || !_academy.IsCommunicatorOn || !completed)
            {
                End();
                return false;
            }
            Debug.Log(FormattableString.Invariant($"Round {Rounds} has ended, the next one starts."), this);
            EndRound();
            BeginRound();
            return true;
        }

        private void BeginRound()
        {
            _agents = new GameObject("Tau Agents");
            _plan.Stats.BeginRound();
            _trainer = _plan.MakePairs(_agents.transform, Rounds);
            _round = _trainer.RunAsync(CancellationToken.None);
        }

        private void EndRound()
        {
            _trainer.Dispose();
            _trainer = null;
            if (_agents != null)
            {
                Destroy(_agents);
            }
        }

        private void SendStatistics()
        {
            foreach (TauStat stat in _plan.Stats.Take())
            {
                _academy.StatsRecorder.Add(stat.Key, stat.Value, stat.Latest
                    ? StatAggregationMethod.MostRecent
                    : StatAggregationMethod.Average);
            }
        }

        /// <summary>Reports once and cleans up.</summary>
        private void End()
        {
            _report = _trainer.Report();
            if (Academy.IsInitialized && Academy.Instance == _academy)
            {
                _academy.AgentPreStep -= OnStep;
                _academy.OnEnvironmentReset -= OnReset;
                _parameters.WatchRules(null);
            }
            EndRound();
            Debug.Log(_report.ToText(), this);
            Finished?.Invoke(_report);
        }
    }
}
