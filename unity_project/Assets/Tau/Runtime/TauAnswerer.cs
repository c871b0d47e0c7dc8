using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading.Tasks;
using Tau.Core;
using Unity.MLAgents;
using Unity.MLAgents.Policies;
using UnityEngine;
#if TAU_SENTIS
using ModelAsset = Unity.Sentis.ModelAsset;
#else
using ModelAsset = Unity.InferenceEngine.ModelAsset;
#endif

namespace Tau
{
    /// <summary>
    /// Answers questions with a trained model: an inference-only agent gets the question's embedding, and the answer
    /// nearest to its output is returned. It handles one prompt per step of the academy, in the order of the questions.
    /// </summary>
    [AddComponentMenu("Tau/Tau Answerer")]
    [DisallowMultipleComponent]
    public sealed class TauAnswerer : MonoBehaviour
    {
        /// <summary>Path of the model in a Resources folder, without its extension.</summary>
        public const string ModelResource = "Models/TauAgent";

        [SerializeField]
        [Tooltip("The trained model. Empty: Models/TauAgent in a Resources folder.")]
        private ModelAsset _model = null;

        [SerializeField]
        [Tooltip("The profile that the model was trained with: `tau3` or `tau384`.")]
        private string _profile = "tau3";

        [SerializeField]
        [Tooltip("A data set written by `tau-train data export-unity`. Empty: the one in StreamingAssets.")]
        private string _data = "";

        [SerializeField]
        [Tooltip("Whether the model was trained with the sensor `target`, too; it gets zeros there.")]
        private bool _targetSensor = false;

        private readonly Queue<Request> _waiting = new Queue<Request>();
        private Request _shown;
        private TauTask _task;
        private QuestionMatcher _matcher;
        private TauAgent _agent;
        private Academy _academy;

        /// <summary>Takes data, profile and sensor from options, if they are given.</summary>
        public void Configure(TauOptions options)
        {
            _data = options.Data ?? _data;
            _profile = options.Profile ?? _profile;
            _targetSensor = _targetSensor || options.TargetSensor;
            Leave(new TauException("The model did not answer before it was set up again; ask again."));
            _task = null;
        }

        /// <summary>Asks the model; it answers in one of the next steps of the game.</summary>
        /// <param name="question">One of the data set's questions; else a similar one is used, and named in the
        /// answer.</param> <exception cref="TauException"> There is no model, no data, no similar question, or no
        /// answer.
        /// </exception>
        public async Task<TauAnswer> AskAsync(string question)
        {
            Load();
            TauTask task = _task;
            QuestionMatch match = _matcher.Find(question);
            var watch = Stopwatch.StartNew();
            float[] output = await InferAsync(match.Vector);
            int answer = Decoding.Nearest(output, task.Targets, task.Targets.Length);
            return new TauAnswer(question, match, task.Dataset.Answers[answer], watch.Elapsed.TotalMilliseconds);
        }

        /// <summary>An evaluation on the held-out rows, for <see cref="EvaluateAsync"/>.</summary>
        /// <exception cref="TauException">There is no model, no data, or no held-out row.</exception>
        public HeldOutEvaluation MakeEvaluation()
        {
            Load();
            return new HeldOutEvaluation(_task);
        }

        /// <summary>Shows the model every held-out row once, one per step of the game.</summary>
        /// <exception cref="TauException">The model does not answer.</exception>
        public async Task EvaluateAsync(HeldOutEvaluation evaluation)
        {
            for (float[] prompt = evaluation.Next(); prompt != null; prompt = evaluation.Next())
            {
                evaluation.Add(await InferAsync(prompt));
            }
        }

        private void OnDestroy()
        {
            Leave(new TauException("The model did not answer before its scene was closed; ask again."));
        }

        private Task<float[]> InferAsync(float[] prompt)
        {
            Join();
            var request = new Request(prompt);
            _waiting.Enqueue(request);
            return request.Answer.Task;
        }

        private void Load()
        {
            if (_task == null)
            {
                FindModel();
                _task = new TauTask(TauData.Open(_data), TauProfile.Get(_profile));
                _matcher = new QuestionMatcher(_task.Dataset);
            }
        }

        private ModelAsset FindModel()
        {
            ModelAsset model = _model != null ? _model : Resources.Load<ModelAsset>(ModelResource);
            return model != null ? model : throw new TauException(
                "There is no trained model; train one and copy results/<run>/TauAgent.onnx to "
                + "Assets/Tau/Resources/Models.");
        }

        /// <summary>Makes the agent and adds it to the game.</summary>
        private void Join()
        {
            if (_agent != null)
            {
                return;
            }
            Unsubscribe(); // a destroyed agent leaves its listener behind
            _agent = TauAgent.Create(null, "Tau Answerer Agent", _task.Profile, _targetSensor);
            var behavior = _agent.GetComponent<BehaviorParameters>();
            behavior.DeterministicInference = true;
            behavior.Model = FindModel();
            behavior.BehaviorType = BehaviorType.InferenceOnly;
            _agent.Connect(OnAnswer);
            _agent.Activate();
            _academy = Academy.Instance;
            _academy.AgentPreStep += OnStep;
        }

        private void Unsubscribe()
        {
            if (_academy != null && Academy.IsInitialized && Academy.Instance == _academy)
            {
                _academy.AgentPreStep -= OnStep;
            }
            _academy = null;
        }

        /// <summary>Removes the agent from the game; pending questions get <paramref name="mistake"/>.</summary>
        private void Leave(TauException mistake)
        {
            var requests = new List<Request>(_waiting);
            if (_shown != null)
            {
                requests.Insert(0, _shown);
            }
            _waiting.Clear();
            _shown = null;
            Unsubscribe();
            if (_agent != null)
            {
                _agent.Deactivate();
                Destroy(_agent.gameObject);
            }
            _agent = null;
            foreach (Request request in requests)
            {
                request.Answer.TrySetException(mistake);
            }
        }

        /// <<summary>Called before every step of the academy.</summary>
        private void OnStep(int step)
        {
            if (_shown != null && _agent.IsDeciding)
            {
                Leave(NoAnswer());
                return;
            }
            if (_shown == null && _waiting.Count > 0)
            {
                _shown = _waiting.Dequeue();
            }
            if (_shown == null)
            {
                return;
            }
            try
            {
                // A question's target is unknown, and a model must not see it: zeros.
                _agent.RequestDecision(_shown.Prompt, new float[_task.Profile.ActionSize]);
            }
            catch (TauException mistake)
            {
                Leave(mistake);
            }
        }

        private void OnAnswer(float[] output)
        {
            Request request = _shown;
            _shown = null;
            request.Answer.TrySetResult((float[])output.Clone());
        }

        /// <summary>The error after a whole step without an answer: there will be none, for any question.</summary>
        private TauException NoAnswer()
        {
            TauProfile profile = _task.Profile;
            return new TauException(FormattableString.Invariant(
                $"The model did not answer: it could not be loaded, or it does not fit profile {profile.Name} ")
                + FormattableString.Invariant(
                    $"({TauProfile.EmbeddingSize} observations, {profile.ActionSize} actions); the log says why. ")
                + "Name its profile with --tau-profile, or train another model.");
        }

        /// <summary>A prompt for the model.</summary>
        private sealed class Request
        {
            public Request(float[] prompt)
            {
                Prompt = prompt;
            }

            public float[] Prompt { get; }

            public TaskCompletionSource<float[]> Answer { get; } = new TaskCompletionSource<float[]>();
        }
    }
}
